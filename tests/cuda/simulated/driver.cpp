// The driver's calls by which the program asks for a device: there is one, unless
// TRIREME_SIMULATED_DEVICES is 0.
#include <cstdlib>

extern "C" {

int cuInit(unsigned) {
  return 0;
}
int cuDeviceGetCount(int* n) {
  const char* given = std::getenv("TRIREME_SIMULATED_DEVICES");
  *n = given ? std::atoi(given) : 1;
  return 0;
}
int cuGetErrorString(int, const char** text) {
  *text = "an error of the simulation";
  return 0;
}
}
