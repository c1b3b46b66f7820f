"""What operators ask and tell a crawl, through its board and from any machine that reaches its Redis.

commands    the command line of all below; ruling_commands that of rulings
asking      one question: its answer, and orders to gatherers
looking     who is there, and what is in force
parts       hosts and URLs as operators name them
condition   whether the crawl is finished, crawling, paused, waiting or stuck, and why
alarms      what somebody should look at
helping     who is invited to help, and who is there
overview    all of that on one screen
status      `gcs status`, `gcs nodes`, `gcs queues`
watching    `gcs status --watch`
inquiry     `gcs why`
searching   `gcs search`
profiles    `gcs profile`
ownership   `gcs superpages`, `gcs host`
planning    `gcs rebalance`
ruling      `gcs pause`, `gcs resume`, `gcs block`, `gcs unblock`
setting     `gcs config set`, `gcs config unset`, `gcs config show --crawl`
work        `gcs seed`, `gcs forget`, `gcs retry`, `gcs drain`
ledger      `gcs audit`
"""
