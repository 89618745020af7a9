"""Two example plugins for Stowplan. See the README beside this package."""
