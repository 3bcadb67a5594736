"""Media, archives, databases and texts of real encoders, deleted, of which no map is left."""
