"""Handlers of log-in, ACLs, users, delegation tokens and quotas."""
