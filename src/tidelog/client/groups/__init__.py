"""Membership in a group: joining, heartbeats, assignors, rebalances, committed offsets."""
