"""What a node holds and what is known of it, as plain lines of text without a style."""
