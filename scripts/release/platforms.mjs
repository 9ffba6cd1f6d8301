// What prebuilt addons there are: their packages, what package managers choose them by, and what zig compiles them for.
//
// glibc 2.28 is what Node's own binaries need. Whoever has another C library, another processor or another system
// builds from source (scripts/install.mjs). The one with CUDA is larger than all else together: it comes to those alone
// who ask for it by its name.

/** Of the C library that binaries for glibc may need at most. */
export const GLIBC = '2.28';

/**
 * By name, which is that of the package after `@spillway/`: fields of its package.json, zig's target and Rust's, and
 * what CMake has to be told. Those with `cuda` are compiled by this machine's own compiler: nvcc reads the headers of no
 * other standard library than GNU's, and zig has none but LLVM's.
 */
export const PLATFORMS = {
  'linux-x64': {
    os: 'linux',
    cpu: 'x64',
    libc: 'glibc',
    target: `x86_64-linux-gnu.${GLIBC}`,
    rust: 'x86_64-unknown-linux-gnu',
    system: 'Linux',
    processor: 'x86_64',
  },
  'linux-x64-musl': {
    os: 'linux',
    cpu: 'x64',
    libc: 'musl',
    target: 'x86_64-linux-musl',
    rust: 'x86_64-unknown-linux-musl',
    system: 'Linux',
    processor: 'x86_64',
  },
  'linux-x64-cuda': {
    os: 'linux',
    cpu: 'x64',
    libc: 'glibc',
    cuda: true,
    rust: 'x86_64-unknown-linux-gnu',
  },
  'linux-arm64': {
    os: 'linux',
    cpu: 'arm64',
    libc: 'glibc',
    target: `aarch64-linux-gnu.${GLIBC}`,
    rust: 'aarch64-unknown-linux-gnu',
    system: 'Linux',
    processor: 'aarch64',
  },
  'darwin-x64': {
    os: 'darwin',
    cpu: 'x64',
    target: 'x86_64-macos.13.0',
    rust: 'x86_64-apple-darwin',
    system: 'Darwin',
    processor: 'x86_64',
  },
  'darwin-arm64': {
    os: 'darwin',
    cpu: 'arm64',
    target: 'aarch64-macos.13.0',
    rust: 'aarch64-apple-darwin',
    system: 'Darwin',
    processor: 'arm64',
  },
};

export const packageName = (platform) => `@spillway/${platform}`;

/** The name of its file is this, a dash, and the version. */
export const packedName = (platform) => packageName(platform).slice(1).replace('/', '-');

/** The package.json of an addon's package. @param description fields that it shares with the package it is for */
export function packageManifest(platform, description) {
  const { os, cpu, libc } = PLATFORMS[platform];
  return {
    name: packageName(platform),
    description: `The native addon of spillway for ${platform}`,
    ...description,
    os: [os],
    cpu: [cpu],
    ...(libc && { libc: [libc] }),
    main: 'spillway.node',
    files: ['spillway.node', 'LICENSE'],
    publishConfig: { access: 'public', provenance: true },
  };
}
