"""When a page is visited again, and what a visit says about the next one.

freshness    how current copies are, what a visit is worth, and how visits are best shared out
rates        how often a page changes, from few visits, with what its superpage and its host show
timetable    from what is known of a page to when it is due, within a budget of visits
likeness     whether a page that is not the same is another one: texts and links in a few bytes
pace         no more visits at once than the budget has room for
hints        visits before their time, within the same budget
memory       what is remembered of a page from one visit to the next
share        new pages and old ones in the proportion α
"""
