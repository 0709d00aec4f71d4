// The scalar type of the library.
//
// Everything is compiled twice from the same sources: `seppo::seppo` with real = float, for training,
// and `seppo::f64` with real = double (SEPPO_FLOAT64), for gradient checks. All names live in an
// inline namespace that says which one, so code compiled for one never links against the other.
#pragma once

#ifdef SEPPO_FLOAT64
#define SEPPO_ABI f64
#else
#define SEPPO_ABI f32
#endif

namespace seppo {
inline namespace SEPPO_ABI {

#ifdef SEPPO_FLOAT64
using real = double;
#else
using real = float;
#endif

}  // namespace SEPPO_ABI
}  // namespace seppo
