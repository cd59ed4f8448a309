#pragma once
// The standard output of a subcommand.

namespace trireme {

// Flushes stdout; Error when something printed could not be written.
void flush_output();

}  // namespace trireme
