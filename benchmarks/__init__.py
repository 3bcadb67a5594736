"""Speed and memory of ext4kit beside the tools of today, on one large image."""
