// Everything that a hardware profile is made of, measured on this machine.
#pragma once
#include "Figure.h"
#include "ProfileProgress.h"
#include "Workbench.h"

namespace spillway {

// Blocks for some ten seconds times the budget; on a machine that is busy with something else for up to 20 or one
// round, whichever is longer. A disk that cannot be measured is left out; everything else throws:
// Error(InvalidArgument), Error(Memory), Error(Cancelled) within some tens of milliseconds after `stopped` was set.
MachineFigures measureMachine(const ProfileOptions& options, ProfileProgress& progress);

}  // namespace spillway
