"""Light-weight helpers: machines that take URLs, give summaries back, and keep nothing. (003, section 7.)"""
