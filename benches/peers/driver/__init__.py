"""The parts of benches/peers/run."""
