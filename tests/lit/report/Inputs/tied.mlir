// A language model of two layers with a tied head, as the frontend hands it
// over: width 8, mlp 16, vocabulary 11, context 6.
module attributes {
  tfm.model = "Tied", tfm.source = "tied.tfm",
  tfm.hyperparameters = [
    {name = "vocab", value = 11 : i64}, {name = "context", value = 6 : i64},
    {name = "width", value = 8 : i64}, {name = "layers", value = 2 : i64},
    {name = "drop", value = 1.000000e-01 : f64}],
  tfm.modules = [
    {path = "", module = "Tied", line = 1 : i64},
    {path = "wte", module = "Embedding", line = 2 : i64},
    {path = "wpe", module = "Embedding", line = 3 : i64},
    {path = "h", module = "Block", line = 4 : i64, count = 2 : i64, dims = "layers"},
    {path = "h.*.fc", module = "Linear", line = 10 : i64},
    {path = "h.*.proj", module = "Linear", line = 11 : i64},
    {path = "ln_f", module = "LayerNorm", line = 5 : i64}]
} {
  tfm.param @"wte.weight" : tensor<11x8xf32>
    {dims = ["vocab", "width"], init = {kind = "normal", args = [0.02]}, aliases = ["lm_head.weight"]}
  tfm.param @"wpe.weight" : tensor<6x8xf32>
    {dims = ["context", "width"], init = {kind = "normal", args = [0.02]}, trainable = false}
  tfm.param @"h.*.fc.weight" : tensor<2x8x16xf32>
    {dims = ["width", "2*width"], init = {kind = "normal", args = [0.02]}}
  tfm.param @"h.*.fc.bias" : tensor<2x16xf32> {dims = ["2*width"], init = {kind = "zeros"}}
  tfm.param @"h.*.proj.weight" : tensor<2x16x8xf32>
    {dims = ["2*width", "width"], init = {kind = "normal", args = [0.02]}}
  tfm.param @"ln_f.weight" : tensor<8xf32> {dims = ["width"], init = {kind = "ones"}}
  func.func @forward(%tokens: tensor<1x6xi32> {tfm.name = "tokens", tfm.dims = ["B", "T"]})
      -> tensor<1x6x11xf32> {
    %wte = tfm.get_param @"wte.weight" : tensor<11x8xf32>
    %wpe = tfm.get_param @"wpe.weight" : tensor<6x8xf32>
    %fc = tfm.get_param @"h.*.fc.weight" : tensor<2x8x16xf32>
    %fb = tfm.get_param @"h.*.fc.bias" : tensor<2x16xf32>
    %proj = tfm.get_param @"h.*.proj.weight" : tensor<2x16x8xf32>
    %g = tfm.get_param @"ln_f.weight" : tensor<8xf32>
    %e = tfm.gather %wte, %tokens : tensor<11x8xf32>, tensor<1x6xi32>
    %pos = tfm.positions %tokens : tensor<1x6xi32>
    %p = tfm.gather %wpe, %pos : tensor<6x8xf32>, tensor<1x6xi32>
    %x = tfm.add %e, %p {tfm.value = {path = "", name = "x", dims = ["B", "T", "width"], line = 8 : i64}}
        : tensor<1x6x8xf32>
    %x2 = tfm.reshape %x : tensor<1x6x8xf32> to tensor<6x8xf32>
    %y = tfm.repeat 2 carried(%x2 : tensor<6x8xf32>)
        stacked(%fc, %fb, %proj : tensor<2x8x16xf32>, tensor<2x16xf32>, tensor<2x16x8xf32>)
        shared() -> (tensor<6x8xf32>) {
    ^bb0(%layer: index, %h: tensor<6x8xf32>, %w1: tensor<8x16xf32>, %b1: tensor<16xf32>, %w2: tensor<16x8xf32>):
      %m = tfm.matmul %h, %w1 : tensor<6x8xf32>, tensor<8x16xf32>
      %bb = tfm.broadcast %b1 : tensor<16xf32> to tensor<6x16xf32>
      %mb = tfm.add %m, %bb : tensor<6x16xf32>
      %a = tfm.gelu_tanh %mb
        {tfm.value = {path = "h.*", name = "a", dims = ["B", "T", "2*width"], line = 13 : i64}} : tensor<6x16xf32>
      %o = tfm.matmul %a, %w2 : tensor<6x16xf32>, tensor<16x8xf32>
      %r = tfm.add %h, %o : tensor<6x8xf32>
      tfm.yield %r : tensor<6x8xf32>
    }
    %n = tfm.normalize %y eps 1.0e-5 : tensor<6x8xf32>
    %gb = tfm.broadcast %g : tensor<8xf32> to tensor<6x8xf32>
    %ng = tfm.mul %n, %gb : tensor<6x8xf32>
    %l = tfm.matmul %ng, %wte transpose_b : tensor<6x8xf32>, tensor<11x8xf32>
    %logits = tfm.reshape %l : tensor<6x11xf32> to tensor<1x6x11xf32>
    return %logits : tensor<1x6x11xf32>
  }
}
