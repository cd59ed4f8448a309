#pragma once
// What a subcommand prints.

namespace trireme {

// Error unless all that was printed to stdout so far has been taken.
void flush_output();

}  // namespace trireme
