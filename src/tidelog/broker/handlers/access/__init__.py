"""Who may do what and how much: log-in, ACLs, users, delegation tokens, quotas."""
