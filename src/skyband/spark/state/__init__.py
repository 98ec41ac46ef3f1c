"""What is kept between micro-batches, and the one processor that keeps it."""
