"""`tidelog top`: a live view of topics, groups and brokers.

`look` asks the cluster for a `frame`, `rows` and `window` turn frames into figures, `view` keeps what the person wants
to see, `screen` draws, `keys` and `terminal` speak with the terminal, `command` holds it all together."""
