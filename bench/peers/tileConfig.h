// Put before every source of llama.cpp by buildLlamaCpp.mjs. GCC 12 tells its optimiser that `_tile_loadconfig` reads 8 bytes, where the
// instruction reads 64; stores to the others are dropped, and on processors with AMX llama.cpp dies of its first product. All 64 are named here.
#pragma once
#if defined(__AMX_TILE__) && defined(__GNUC__) && !defined(__clang__) && __GNUC__ < 13
#include <immintrin.h>
#define _tile_loadconfig(config) __asm__ volatile("ldtilecfg %0" ::"m"(*reinterpret_cast<const char(*)[64]>(config)))
#endif
