"""The words that nearly every text of a language has, such as articles and prepositions.

They are counted: all that are at least one in 400 words of a treebank of Universal Dependencies, and are
mostly adpositions, adverbs, auxiliaries, conjunctions, determiners, particles or pronouns there; but for some
that have the stem of quite another word, such as Spanish "como", which has that of "comida". In English these
are a third of what is written. Where each of them stands says little and would cost an index most, so a
phrase asks less of them than of other words (`gcs.core.query`).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

FREQUENT: Final[Mapping[str, str]] = MappingProxyType(
    {
        "ar": "في من أن على إلى عام كان التي مع عن خلال ما ذلك بعد كانت الذي لم هذا لكن لا قبل بين",
        "cs": "a v se na je s i k o ve do z pro nebo že jsou při to jako za po aby které",
        "da": (
            "i og at det er en af til på de for har den med der ikke som et om jeg var han men vi så fra kan "
            "man sig skal efter blev hun være havde over vil ved hvor"
        ),
        "de": (
            "die der und in das den ist mit nicht zu ich für von es auf ein auch sich im eine wir dem des "
            "war am sehr bei an dass hat nach man aus sind noch nur als so über aber sie einer er haben kann "
            "werden vor wie um"
        ),
        "el": (
            "και να της το την η του για με των από που ότι ο οι στην σε θα τα τη είναι στο τους τις τον δεν "
            "στη στις αυτό κατά μας ένα μια"
        ),
        "en": (
            "the to and a i of in you is for it that on with are this be was they my at not we but if as or "
            "there can from me what by has your all would do an very so he"
        ),
        "es": "de la el en y que a los del se un por con las es una su al no más lo fue o este",
        "et": (
            "ja on ei et kui ka see siis aga ma mis seda nii oli või oleks pole selle ning oma kes ise nagu "
            "kas midagi ole olen minu"
        ),
        "eu": "eta da ez zuen du izan zen dira ere baina dute zuten ziren atzo bere dela hori beste ditu",
        "fa": "و در به از که این را است با آن بر برای خود بود هم وی او",
        "fi": "ja on että ei se oli tai kun hän sen myös ovat mutta kuin joka voi jos sitä ole niin",
        "fr": (
            "de la le et l à les en est des un du d il une dans au a pour par qui que sur plus se pas ce "
            "avec s sont qu elle n aux"
        ),
        "ga": (
            "a an agus ar na i ag go le sé is sin é sa de seo leis ó ach mar d gur nó ní do féin in ina mé "
            "faoi nach eile chun ann sí san dá as aon ná"
        ),
        "hi": (
            "के में है की और से को का ने एक कि पर हैं था लिए गया नहीं यह जो इस साथ तक बाद भी थी वह लेकिन अपने थे उसने उसके"
        ),
        "hu": "a az és is hogy nem s egy szerint már még de csak meg volt azt",
        "hy": "է եւ են ու որ էր մի համար ես այդ էլ այս ենք նաեւ եմ թե մասին հետ մեջ",
        "id": (
            "yang dan di pada dari dengan ini adalah untuk dalam sebagai oleh ia ke atau akan itu mereka "
            "juga tidak sebuah dapat telah"
        ),
        "it": (
            "di il e la che in è per del a l un della i si le non una con al da ha dei sono dell delle gli "
            "nel o come alla più anche ma dal all quando chi se quale"
        ),
        "lt": (
            "ir kad į ar iš o su tik yra ne kaip taip tai buvo bet apie dėl nuo jau per dar tačiau to iki "
            "jeigu už"
        ),
        "nb": (
            "i og det er på som å for en til at av har med ikke de jeg han om et vi den var men vil kan fra "
            "seg så hun skal også ble være etter dette da du"
        ),
        "nl": (
            "de van het in en een op dat is voor te zijn met die niet bij aan was hij maar als om er door ik "
            "worden uit ook tot ze heeft over of wordt naar dan nog hebben na kan"
        ),
        "nn": (
            "i og det er som til på å for ein av at dei har med ikkje om den eit men han eg var ei frå vi "
            "seg kan så dette etter skal må vil opp vart ut no"
        ),
        "no": (
            "i og det er på som å for en til at av har med ikke de jeg han om et vi den var men vil kan fra "
            "seg så hun skal også ble være etter dette da du"
        ),
        "pl": "w i na się z nie do że to o jest a po jak za od przez ale co",
        "pt": ("de a o que e do da em um os se uma no não é na por dos as ao das mais à foi mas são sua ser"),
        "ro": (
            "de în și a la se cu să o din pe care un pentru nu este mai că au sau al s ce fost fi ca i prin"
        ),
        "ru": "в и на с по не из от для был к как его а что за он",
        "sr": "u je i da se na za su sa od će a koji bi iz ne kao što on o to koje takođe",
        "sv": (
            "och i att som det är en av på för de den har med till inte om kan man ett sig så eller men vi "
            "måste också från under än"
        ),
        "tr": "bir ve bu da de için çok o gibi daha ne sonra ile her en ama olarak kadar ya",
    }
)
"""By languages, with spaces between, the most frequent first; there are none for others."""
