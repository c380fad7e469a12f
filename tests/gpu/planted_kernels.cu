// Kernels with one known fault each, and the same work without it. Every function of the
// C interface launches one kernel on the stream that it is given.

#include <cuda_runtime.h>

namespace {

constexpr int ROUNDS = 16;
constexpr int TILE = 32;
constexpr int VALUES = 48;

// Mean and deviation of each row. A thread walks a row alone: at each load the threads of
// a warp stand in 32 different rows, and use 4 bytes of each sector.
__global__ void normalise_thread_per_row(const float* in, float* out, int rows, int width) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    const float* from = in + static_cast<size_t>(row) * width;
    float* to = out + static_cast<size_t>(row) * width;
    float sum = 0, squares = 0;
    for (int at = 0; at < width; ++at) sum += from[at];
    float mean = sum / width;
    for (int at = 0; at < width; ++at) squares += (from[at] - mean) * (from[at] - mean);
    float scale = rsqrtf(squares / width + 1e-5f);
    for (int at = 0; at < width; ++at) to[at] = (from[at] - mean) * scale;
}

__device__ float over_warp(float value) {
    for (int step = 16; step; step /= 2) value += __shfl_xor_sync(~0u, value, step);
    return value;
}

// The same; a warp shares a row, and neighbouring threads read neighbouring elements.
__global__ void normalise_warp_per_row(const float* in, float* out, int rows, int width) {
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (row >= rows) return;
    const float* from = in + static_cast<size_t>(row) * width;
    float* to = out + static_cast<size_t>(row) * width;
    float sum = 0, squares = 0;
    for (int at = lane; at < width; at += 32) sum += from[at];
    float mean = over_warp(sum) / width;
    for (int at = lane; at < width; at += 32) squares += (from[at] - mean) * (from[at] - mean);
    float scale = rsqrtf(over_warp(squares) / width + 1e-5f);
    for (int at = lane; at < width; at += 32) to[at] = (from[at] - mean) * scale;
}

// Sums of a tile's columns. Without padding all threads of a warp need one bank.
template <int PADDING>
__global__ void column_sums(const float* in, float* out) {
    __shared__ float tile[TILE][TILE + PADDING];
    int x = threadIdx.x, y = threadIdx.y;
    size_t at = static_cast<size_t>(blockIdx.x) * TILE * TILE + y * TILE + x;
    tile[y][x] = in[at];
    __syncthreads();
    float sum = 0;
    for (int round = 0; round < ROUNDS; ++round) sum += tile[x][(y + round) % TILE];
    out[at] = sum;
}

// Many values of a thread at once; the bound on registers leaves room for 32 of them.
__device__ void mixed(const float* in, float* out) {
    size_t at = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    float values[VALUES];
    float first = in[at];
#pragma unroll
    for (int it = 0; it < VALUES; ++it) values[it] = first + it;
    for (int round = 0; round < 2; ++round) {
#pragma unroll
        for (int it = 0; it < VALUES; ++it)
            values[it] = values[it] * values[(it + 7) % VALUES] + 0.5f;
    }
    float sum = 0;
#pragma unroll
    for (int it = 0; it < VALUES; ++it) sum += values[it];
    out[at] = sum;
}

__global__ void __launch_bounds__(1024, 2) mix_few_registers(const float* in, float* out) {
    mixed(in, out);
}

__global__ void __launch_bounds__(1024, 1) mix(const float* in, float* out) {
    mixed(in, out);
}

// A chain of reads, each of which waits for the one before. Only other warps hide that.
__global__ void chase(const int* next, int* out, int length, int steps) {
    int at = (blockIdx.x * blockDim.x + threadIdx.x) % length;
    for (int step = 0; step < steps; ++step) at = next[at];
    out[blockIdx.x * blockDim.x + threadIdx.x] = at;
}

// The same, with shared memory that is asked for and not used: two blocks fit.
__global__ void chase_few_warps(const int* next, int* out, int length, int steps) {
    extern __shared__ int unused[];
    int at = (blockIdx.x * blockDim.x + threadIdx.x) % length;
    for (int step = 0; step < steps; ++step) at = next[at];
    if (at < 0) unused[threadIdx.x] = at;
    out[blockIdx.x * blockDim.x + threadIdx.x] = at;
}

// Reads and writes each element once: memory is what limits it.
__global__ void scale(const float* in, float* out, size_t length) {
    size_t at = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (at < length) out[at] = in[at] * 1.5f;
}

// Arithmetic on one value: computing is what limits it.
__global__ void iterate(const float* in, float* out, int rounds) {
    size_t at = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    float one = in[at], two = one + 1, three = one + 2, four = one + 3;
    for (int round = 0; round < rounds; ++round) {
        one = one * 0.999f + 0.5f;
        two = two * 0.999f + 0.5f;
        three = three * 0.999f + 0.5f;
        four = four * 0.999f + 0.5f;
    }
    out[at] = one + two + three + four;
}

// As scale, by four blocks: the other multiprocessors have nothing to do.
__global__ void scale_few_blocks(const float* in, float* out, size_t length) {
    size_t stride = static_cast<size_t>(gridDim.x) * blockDim.x;
    for (size_t at = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x; at < length; at += stride)
        out[at] = in[at] * 1.5f;
}

int status() { return static_cast<int>(cudaGetLastError()); }

}  // namespace

extern "C" {

int thread_per_row(const float* in, float* out, int rows, int width, cudaStream_t stream) {
    normalise_thread_per_row<<<(rows + 127) / 128, 128, 0, stream>>>(in, out, rows, width);
    return status();
}

int warp_per_row(const float* in, float* out, int rows, int width, cudaStream_t stream) {
    normalise_warp_per_row<<<(rows + 3) / 4, 128, 0, stream>>>(in, out, rows, width);
    return status();
}

int conflicts(const float* in, float* out, int length, cudaStream_t stream) {
    column_sums<0><<<length / (TILE * TILE), dim3(TILE, TILE), 0, stream>>>(in, out);
    return status();
}

int padded(const float* in, float* out, int length, cudaStream_t stream) {
    column_sums<1><<<length / (TILE * TILE), dim3(TILE, TILE), 0, stream>>>(in, out);
    return status();
}

int spills(const float* in, float* out, int length, cudaStream_t stream) {
    mix_few_registers<<<length / 1024, 1024, 0, stream>>>(in, out);
    return status();
}

int registers(const float* in, float* out, int length, cudaStream_t stream) {
    mix<<<length / 1024, 1024, 0, stream>>>(in, out);
    return status();
}

int few_warps(const int* next, int* out, int length, int steps, cudaStream_t stream) {
    const int bytes = 100 * 1024;
    cudaFuncSetAttribute(chase_few_warps, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    chase_few_warps<<<length / 128, 128, bytes, stream>>>(next, out, length, steps);
    return status();
}

int many_warps(const int* next, int* out, int length, int steps, cudaStream_t stream) {
    chase<<<length / 128, 128, 0, stream>>>(next, out, length, steps);
    return status();
}

int few_blocks(const float* in, float* out, int length, cudaStream_t stream) {
    scale_few_blocks<<<4, 1024, 0, stream>>>(in, out, length);
    return status();
}

int memory_bound(const float* in, float* out, int length, cudaStream_t stream) {
    scale<<<(length + 255) / 256, 256, 0, stream>>>(in, out, length);
    return status();
}

int compute_bound(const float* in, float* out, int length, cudaStream_t stream) {
    iterate<<<length / 256, 256, 0, stream>>>(in, out, 256);
    return status();
}

}  // extern "C"
