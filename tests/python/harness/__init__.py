"""What the tests stand on: the real program in a temporary folder, plain ZeroMQ clients, and tools made on the spot."""
