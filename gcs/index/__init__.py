"""The full text of what a crawl has summarised: an index beside the store, filled from its commits.

`entries` is what of a summary can be found, `engine` the index, `symbols` how terms are written into it,
`worker` the process that fills it, `feed` what comes into it next, `service` the gatherer's side; `searching`
answers, with what `texts` reads.
"""

from typing import Final

DIRECTORY: Final = "index"
"""Where the index of a store is, in the store's directory."""
FORGOTTEN: Final = "forgotten"
"""The name under which a store keeps what was forgotten, and must not be found."""
