"""Container runtimes (Docker, Apptainer, enroot, Pyxis) and the images that they start."""
