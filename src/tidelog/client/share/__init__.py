"""The share consumer: records of share groups, acquired and acknowledged one by one."""
