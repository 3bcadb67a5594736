"""One scan of what no live file has: free blocks, and journal blocks that no descriptor names."""
