"""Output folders, of shards or of machines, become one."""
