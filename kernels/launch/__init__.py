"""How kernels are switched, compiled and launched."""
