// Included before every source of a bundle: what the compiler at hand would bind to a symbol that
// is younger than the C++ library of the oldest target is bound to its older version, which every
// later library has too. cmake/bundle.py refuses what is missing here.
#pragma once

// GCC 12 made it noexcept under GLIBCXX_3.4.30.
__asm__(
    ".symver _ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE,"
    "_ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE@GLIBCXX_3.4.11");
