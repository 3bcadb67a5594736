"""ForensicArtifacts definitions: which files of an image they name."""
