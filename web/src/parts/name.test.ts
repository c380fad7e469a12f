import { describe, expect, it } from "vitest";

import { numbered, parted, shown } from "./name";

describe("a name that is cut", () => {
  it.each([
    ["model/dense/MatMul", "model/dense/MatMul"],
    ["gradient_tape/model_1/conv1_conv/Conv2D/Conv2DBackpropFilter", "conv1_conv/Conv2D/Conv2DBackpropFilter"],
    ["Iterator::Root::Prefetch::ParallelMapV2::Zip[0]::FlatMap", "Prefetch::ParallelMapV2::Zip[0]::FlatMap"],
    ["volta_scudnn_128x64_stridedB_splitK_interior_nn_v1", "interior_nn_v1"],
    ["Iterator::Model::ParallelMapV2::Zip", "Model::ParallelMapV2::Zip"],
    ["allocated before the profile started", "the profile started"],
    [`a/${"n".repeat(50)}`, "n".repeat(14)],
  ])("%s keeps its end %s", (text, tail) => {
    const [head, kept] = parted(text);
    expect(kept).toBe(tail);
    expect(head + kept).toBe(text);
  });
});

describe("a function without a named namespace", () => {
  it("loses it where room is short", () => {
    expect(shown("void (anonymous namespace)::column_sums<0>(float const*)")).toBe("void column_sums<0>(float const*)");
    expect(shown("(anonymous namespace)::mix()")).toBe("(anonymous namespace)::mix()");
  });
});

describe("a track's name", () => {
  it.each([
    ["Framework Name Scope - from #19", "#19"],
    ["tf_data_iterator_resource/1829434965", "/1829434965"],
    ["tf_data_iterator_get_next/34530783840984", "40984"],
    ["/device:GPU:0", ":GPU:0"],
    ["Stream #19(MemcpyD2D,Compute)", ""],
    ["python", ""],
    ["#7", ""],
  ])("%s keeps %s", (text, tail) => {
    const [head, kept] = numbered(text);
    expect(kept).toBe(tail);
    expect(head + kept).toBe(text);
  });
});
