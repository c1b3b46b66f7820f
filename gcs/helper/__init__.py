"""Light-weight helpers: machines that take URLs, give summaries back, and keep nothing. (003, section 7.)

`papers` is what gatherers and helpers write to each other, at `desks`; `lender` is the gatherer's side, with
`books` of who may be lent to; `worker` fetches and reads. The owner of a desktop decides when: `warden`, and
what it relies on.
"""
