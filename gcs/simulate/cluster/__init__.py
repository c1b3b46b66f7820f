"""A whole cluster in one process: the real gatherers and helpers on a clock that jumps, and disasters.

`world` is time, chance and threads of one machine; `disk` its tables, which outlive a crash; `network` what
is between it and the tuple space; `fetching` what is between it and the synthetic web. `machines` live and
die; `faults` says when; `trial` runs one seed, and checks what was promised.
"""
