"""The commands of this package, each made of the public function of its name."""
