"""Who owns which part of the web: five placements that all give the same kind of plan.

SuperpagePlacement   superpages shared out by learned rates (003)
HashPlacement        a hash of the registered domain (002)
ProximityPlacement   the nearest gatherer, as its announcer measured it (002)
TwomaPlacement       sites move by what they take, compared with their neighbours (000)
OmaPlacement         sites move to where those are that are wanted with them (001)
"""

from gcs.core.placement.domains import HashPlacement, ProximityPlacement, is_clearly_nearer, nearest
from gcs.core.placement.interface import Placement, Probe
from gcs.core.placement.migrating import OmaPlacement, TwomaPlacement
from gcs.core.placement.superpage import SuperpagePlacement
from gcs.core.plan import Domain, Plan, Sites, rendezvous

__all__ = [
    "Domain",
    "HashPlacement",
    "OmaPlacement",
    "Placement",
    "Plan",
    "Probe",
    "ProximityPlacement",
    "Sites",
    "SuperpagePlacement",
    "TwomaPlacement",
    "is_clearly_nearer",
    "nearest",
    "rendezvous",
]
