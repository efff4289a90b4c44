@0xd2c5a1f09e7b3846;
# The messages of a bundle (docs/bundle-format.md). Ordinals are stable: a field is never renumbered, retyped or
# reused, only added, and every field that came later says in which format version. "Must" marks what a reader checks
# before it uses a value; a message that fails a check is refused by name, never repaired.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("xtrace::bundle::wire");

# Files `incomplete` (written when the recording starts) and `manifest` (written when it ends).
struct Manifest {
  # Both versions keep ordinals 0 and 1 forever, so that any reader can refuse any bundle by name.
  formatVersion @0 :UInt32;         # version of the writer
  minimumReaderVersion @1 :UInt32;  # Must be <= the version of the reader

  # Names of the ways in which this recorder departed from the format, so that a later reader can honour an older
  # recorder. Format 1 knows none. Every name Must be known to the reader.
  quirks @2 :List(Text);

  environment @3 :Environment;

  # The rest is zero or empty in `incomplete`.
  launchesSeen @4 :UInt64;          # launches of the application, recorded or not
  warnings @5 :List(Text);
  applicationExitStatus @6 :Int32 = -1;
  launchCount @7 :UInt64;           # Must equal the number of records in `launches`, else the bundle is damaged
  launchesBytes @8 :UInt64;         # size of the file `launches`; Must equal, else damaged
  packBytes @9 :UInt64;             # size of the file `pack`; Must equal, else damaged
  chunkCount @10 :UInt64;           # frames in `pack`
}

struct Environment {
  gpuName @0 :Text;
  gpuUuid @1 :Text;
  sm @2 :UInt32;                    # 90 = compute capability 9.0
  smCount @3 :UInt32;
  memoryBytes @4 :UInt64;
  l2Bytes @5 :UInt64;
  smClockKhz @6 :UInt32;            # maximum, as the driver reports it
  memoryClockKhz @7 :UInt32;
  driverVersion @8 :UInt32;         # cuDriverGetVersion
  kernelDriver @9 :Text;            # empty if unknown
  toolkitVersion @10 :UInt32;       # CUDA_VERSION of the headers the recorder was built with
  hostname @11 :Text;
  startedAt @12 :Text;              # ISO 8601, UTC
  command @13 :List(Text);          # argv of the application
}

struct Dim3 {
  x @0 :UInt32;
  y @1 :UInt32;
  z @2 :UInt32;
}

# A list of hashes: 16 bytes each, low word first, little-endian. The size Must be a multiple of 16.
using Hashes = Data;

# One record of the file `launches`.
struct Launch {
  ordinal @0 :UInt64;               # Must be unique in the bundle
  status @1 :Status;                # Must be known
  skipReason @2 :Text;              # Must not be empty when skipped
  kernel @3 :Text;                  # mangled; Must not be empty when recorded
  code @4 :Code;                    # Must be present when recorded
  api @5 :Text;
  grid @6 :Dim3;                    # Must have no zero when recorded
  block @7 :Dim3;                   # Must have no zero when recorded
  cluster @8 :Dim3;                 # 0,0,0 = no cluster; Must be all zero or have no zero
  dynamicSharedBytes @9 :UInt32;
  cooperative @10 :Bool;
  stream @11 :UInt64;
  attributes @12 :List(Attribute);
  function @13 :FunctionAttributes;
  params @14 :List(Param);
  paramBlock @15 :Data;
  regions @16 :List(Region);        # Must be sorted by address and disjoint
  snapshotSeconds @17 :Float64;
  # Format 2. A kernel of a graph: the number of the graph launch, and of the node in the order in which the recorder ran
  # them, both from 0; -1 = launched by itself. Must both be -1 or both not.
  graphLaunch @18 :Int32 = -1;
  graphNode @19 :Int32 = -1;

  enum Status {
    recorded @0;
    skipped @1;
  }
}

# The cubin. `hash` is over the whole cubin, `chunks` name its pieces in `pack`.
struct Code {
  hash @0 :Hashes;                  # Must be one hash
  size @1 :UInt64;
  chunks @2 :Hashes;                # Must be ceil(size / 1 MiB) hashes
}

struct Attribute {
  id @0 :UInt32;                    # CUlaunchAttributeID
  name @1 :Text;
  value @2 :Data;                   # Must be at most 64 bytes
}

struct FunctionAttributes {
  maxDynamicShared @0 :Int32 = -1;
  preferredCarveout @1 :Int32 = -1;
  nonPortableCluster @2 :Int32 = -1;
  registers @3 :Int32 = -1;
  localBytes @4 :Int32 = -1;
  staticShared @5 :Int32 = -1;
  constantBytes @6 :Int32 = -1;
  maxThreads @7 :Int32 = -1;
}

struct Param {
  offset @0 :UInt32;
  size @1 :UInt32;                  # offset + size Must lie inside paramBlock
}

struct Region {
  kind @0 :Kind;                    # Must be known
  address @1 :UInt64;
  size @2 :UInt64;                  # Must not be 0, and address + size Must not overflow
  symbol @3 :Text;                  # Must not be empty for global and constant
  before @4 :Hashes;                # Must be ceil(size / 1 MiB) hashes
  after @5 :Hashes;                 # the same number, or none when the launch failed

  enum Kind {
    device @0;
    asyncPool @1;
    vmm @2;
    managed @3;
    asked @4;
    global @5;
    constant @6;
  }
}
