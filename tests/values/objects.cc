#include "tests/values/objects.h"

#include <optional>

#ifdef XTRACE_VALUES_DRIVER
#include <cuda.h>
#include <cudaTypedefs.h>
#include <dlfcn.h>

#include <bit>
#include <vector>
#endif

namespace xtrace::values {

#ifndef XTRACE_VALUES_DRIVER

Result<const Objects*> objects() { return unsupported("textures and surfaces are made by the driver, which this build is without"); }

#else

namespace {

struct Api {
  PFN_cuArray3DCreate_v3020 array = nullptr;
  PFN_cuMipmappedArrayCreate_v5000 levels = nullptr;
  PFN_cuMipmappedArrayGetLevel_v5000 level = nullptr;
  PFN_cuMemcpy3D_v3020 copy = nullptr;
  PFN_cuTexObjectCreate_v5000 texture = nullptr;
  PFN_cuSurfObjectCreate_v5000 surface = nullptr;
  PFN_cuMemAlloc_v3020 allocate = nullptr;
  PFN_cuMemcpyHtoD_v3020 upload = nullptr;
};

Result<Api> load() {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return unsupported("textures and surfaces are made by the driver: there is none");
  Api api;
  const auto find = [&](auto& f, const char* name) {
    f = reinterpret_cast<std::decay_t<decltype(f)>>(dlsym(library, name));
    return f != nullptr;
  };
  if (!find(api.array, "cuArray3DCreate_v2") || !find(api.levels, "cuMipmappedArrayCreate") ||
      !find(api.level, "cuMipmappedArrayGetLevel") || !find(api.copy, "cuMemcpy3D_v2") ||
      !find(api.texture, "cuTexObjectCreate") || !find(api.surface, "cuSurfObjectCreate") || !find(api.allocate, "cuMemAlloc_v2") ||
      !find(api.upload, "cuMemcpyHtoD_v2"))
    return unsupported("the driver has no functions for textures and surfaces");
  return api;
}

Status check(CUresult r, const char* what) {
  if (r == CUDA_SUCCESS) return {};
  return device("{}: error {}", what, static_cast<int>(r));
}

// Texel t of an array, component k.
float texel(unsigned which, size_t t, unsigned k) {
  const auto h = static_cast<uint32_t>((t * 4 + k + 1) * 2654435761u) ^ which << 28;
  return static_cast<float>(h >> 8) / 65536.0f;
}

CUDA_ARRAY3D_DESCRIPTOR shape_of_texture(unsigned shape) {
  constexpr size_t side = 32, layers = 4;
  CUDA_ARRAY3D_DESCRIPTOR d{};
  d.Format = CU_AD_FORMAT_FLOAT;
  d.NumChannels = 4;
  d.Width = side;
  d.Height = shape == 0 || shape == 4 ? 0 : side;
  switch (shape) {
    case 2:
      d.Depth = layers;
      break;
    case 3:
      d.Depth = 6;
      d.Flags = CUDA_ARRAY3D_CUBEMAP;
      break;
    case 4:
    case 5:
      d.Depth = layers;
      d.Flags = CUDA_ARRAY3D_LAYERED;
      break;
    case 7:
      d.Depth = 6 * layers;
      d.Flags = CUDA_ARRAY3D_CUBEMAP | CUDA_ARRAY3D_LAYERED;
      break;
    default:
      break;
  }
  return d;
}

Result<uint64_t> object_of(const Api& api, const CUDA_RESOURCE_DESC& resource, bool linear) {
  constexpr unsigned levels = 4;
  CUDA_TEXTURE_DESC how{};
  how.addressMode[0] = how.addressMode[1] = how.addressMode[2] = CU_TR_ADDRESS_MODE_CLAMP;
  if (!linear) {
    how.filterMode = CU_TR_FILTER_MODE_LINEAR;
    how.mipmapFilterMode = CU_TR_FILTER_MODE_LINEAR;
    how.maxMipmapLevelClamp = levels - 1;
    how.flags = CU_TRSF_NORMALIZED_COORDINATES;
  }
  CUtexObject object = 0;
  XT_TRY_STATUS(check(api.texture(&object, &resource, &how, nullptr), "cuTexObjectCreate"));
  return object;
}

// Code 0 is of linear memory: what nvcc makes of tex1Dfetch() names it, and tex1D() of arrays names 2D.
Result<uint64_t> linear_texture(const Api& api, unsigned which) {
  constexpr size_t texels = 256;
  std::vector<float> from(texels * 4);
  for (size_t t = 0; t < from.size(); ++t) from[t] = texel(which, t / 4, t % 4);
  CUdeviceptr memory = 0;
  XT_TRY_STATUS(check(api.allocate(&memory, texels * 16), "cuMemAlloc"));
  XT_TRY_STATUS(check(api.upload(memory, from.data(), texels * 16), "cuMemcpyHtoD"));
  CUDA_RESOURCE_DESC resource{};
  resource.resType = CU_RESOURCE_TYPE_LINEAR;
  resource.res.linear.devPtr = memory;
  resource.res.linear.format = CU_AD_FORMAT_FLOAT;
  resource.res.linear.numChannels = 4;
  resource.res.linear.sizeInBytes = texels * 16;
  return object_of(api, resource, true);
}

// Linear filters, four levels; what lies outside is the nearest texel.
Result<uint64_t> texture(const Api& api, unsigned shape, unsigned which) {
  constexpr unsigned levels = 4;
  if (shape == 0) return linear_texture(api, which);
  const CUDA_ARRAY3D_DESCRIPTOR whole = shape_of_texture(shape);
  CUmipmappedArray array = nullptr;
  XT_TRY_STATUS(check(api.levels(&array, &whole, levels), "cuMipmappedArrayCreate"));
  for (unsigned n = 0; n < levels; ++n) {
    CUDA_MEMCPY3D c{};
    XT_TRY_STATUS(check(api.level(&c.dstArray, array, n), "cuMipmappedArrayGetLevel"));
    const bool layered = whole.Flags != 0;
    const size_t width = whole.Width >> n, height = std::max<size_t>(whole.Height >> n, 1),
                 depth = std::max<size_t>(layered ? whole.Depth : whole.Depth >> n, 1);
    std::vector<float> texels(width * height * depth * 4);
    for (size_t t = 0; t < texels.size(); ++t) texels[t] = texel(which + 2 * n, t / 4, t % 4);
    c.srcMemoryType = CU_MEMORYTYPE_HOST;
    c.srcHost = texels.data();
    c.srcPitch = width * 16;
    c.srcHeight = height;
    c.dstMemoryType = CU_MEMORYTYPE_ARRAY;
    c.WidthInBytes = width * 16;
    c.Height = height;
    c.Depth = depth;
    XT_TRY_STATUS(check(api.copy(&c), "cuMemcpy3D"));
  }
  CUDA_RESOURCE_DESC resource{};
  resource.resType = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
  resource.res.mipmap.hMipmappedArray = array;
  return object_of(api, resource, false);
}

Result<uint64_t> surface(const Api& api, unsigned shape, unsigned which) {
  constexpr size_t layers = 4;
  CUDA_ARRAY3D_DESCRIPTOR d{};
  d.Format = CU_AD_FORMAT_UNSIGNED_INT32;
  d.NumChannels = 1;
  d.Width = surface_texels;
  d.Height = shape >= surface_2d ? surface_rows : 0;
  d.Depth = shape == 2 ? surface_rows : shape >= 4 ? layers : 0;
  d.Flags = CUDA_ARRAY3D_SURFACE_LDST | (shape == 2 || shape == 4 ? CUDA_ARRAY3D_LAYERED : 0);
  CUDA_MEMCPY3D c{};
  XT_TRY_STATUS(check(api.array(&c.dstArray, &d), "cuArray3DCreate"));
  const size_t height = std::max<size_t>(d.Height, 1), depth = std::max<size_t>(d.Depth, 1);
  std::vector<uint32_t> texels(d.Width * height * depth);
  for (size_t t = 0; t < texels.size(); ++t)  // all rows alike: each warp has one
    texels[t] = std::bit_cast<uint32_t>(texel(which, t % d.Width, 0));
  c.srcMemoryType = CU_MEMORYTYPE_HOST;
  c.srcHost = texels.data();
  c.srcPitch = d.Width * 4;
  c.srcHeight = height;
  c.dstMemoryType = CU_MEMORYTYPE_ARRAY;
  c.WidthInBytes = d.Width * 4;
  c.Height = height;
  c.Depth = depth;
  XT_TRY_STATUS(check(api.copy(&c), "cuMemcpy3D"));
  CUDA_RESOURCE_DESC resource{};
  resource.resType = CU_RESOURCE_TYPE_ARRAY;
  resource.res.array.hArray = c.dstArray;
  CUsurfObject object = 0;
  XT_TRY_STATUS(check(api.surface(&object, &resource), "cuSurfObjectCreate"));
  return object;
}

// The driver counts handles from 1.
Result<Objects> make() {
  constexpr uint64_t first_texture = 32;  // texture_in_bank
  XT_TRY(const Api api, load());
  Objects o;
  XT_TRY(o.surface[surface_2d][0], surface(api, surface_2d, 0));
  for (unsigned which = 0; which < 2; ++which)
    for (unsigned shape = 0; shape < surface_shapes; ++shape) {
      if (shape == 1 || o.surface[shape][which] != 0) continue;
      XT_TRY(o.surface[shape][which], surface(api, shape, which));
    }
  for (uint64_t last = 0; last + 1 < first_texture;) {
    XT_TRY(last, linear_texture(api, 0));
  }
  XT_TRY(o.texture[texture_2d][0], texture(api, texture_2d, 0));
  if (o.surface[surface_2d][0] != 1 || o.texture[texture_2d][0] != first_texture)
    return device("handles are not counted from 1: the first surface is {}, the first texture {}", o.surface[surface_2d][0],
                  o.texture[texture_2d][0]);
  for (unsigned which = 0; which < 2; ++which)
    for (unsigned shape = 0; shape < texture_shapes; ++shape) {
      if (shape == 6 || o.texture[shape][which] != 0) continue;
      XT_TRY(o.texture[shape][which], texture(api, shape, which));
    }
  return o;
}

}  // namespace

Result<const Objects*> objects() {
  static std::optional<Objects> made;
  if (!made) {
    XT_TRY(made, make());
  }
  return &*made;
}

#endif

}  // namespace xtrace::values
