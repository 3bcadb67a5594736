"""Every Python with the oldest and the newest libraries that the project allows."""
