// RUN: tfm-opt %s --tfm-add-update | FileCheck %s --check-prefix=FLAT
// RUN: tfm-opt %s --tfm-add-update --tfm-combine-update | FileCheck %s

// Of what decays two rows have half of the learning rate, and behind them three
// the whole of it; of the others all have twice as much.
module attributes {tfm.recipe = "{\"train\": {\"accumulate\": 2, \"optimizer\": {\"kind\": \"adamw\", \"betas\": [0.9, 0.95], \"eps\": 1e-8, \"weight_decay\": 0.25, \"decay_min_rank\": 2, \"eps_placement\": \"torch\", \"momentum\": 0.0, \"nesterov\": false}}}"} {
  tfm.param @a : tensor<2x1000xf32> {init = {kind = "zeros"}, rate = 0.5}
  tfm.param @b : tensor<3x1024xf32> {init = {kind = "zeros"}}
  tfm.param @bias : tensor<1000xf32> {init = {kind = "zeros"}, rate = 2.0}
}

// FLAT-LABEL: func.func @update_decayed(
// FLAT-SAME: %[[P:[^:]*]]: tensor<5072xf32>
// FLAT-SAME: %[[RATES:[^:]*]]: tensor<5072xf32> {tfm.name = "rates"}) ->
// What decays does so by its rate, too.
// FLAT: %[[QUARTER:.*]] = tfm.constant dense<2.500000e-01> : tensor<f32>
// FLAT: %[[SHARE:.*]] = tfm.mul %{{.*}}, %[[QUARTER]]
// FLAT: %[[EACH:.*]] = tfm.broadcast %[[SHARE]]
// FLAT: %[[OWN:.*]] = tfm.mul %[[EACH]], %[[RATES]]
// FLAT: %[[KEPT:.*]] = tfm.sub %{{.*}}, %[[OWN]]
// FLAT: tfm.mul %[[P]], %[[KEPT]]
// FLAT: tfm.mul %{{.*}}, %[[RATES]]
// FLAT: return
// FLAT-LABEL: func.func @update_plain(
// FLAT-SAME: tensor<1000xf32> {tfm.name = "rates"}

// A row of one of several processes counts from where it lies.
// CHECK-LABEL: func.func @update_decayed(
// CHECK-SAME: %[[ROW:.*]]: tensor<1xi32> {tfm.name = "row", tfm.row}
// CHECK: %[[IOTA:.*]] = tfm.iota 0 : tensor<1x1xi32>
// CHECK: %[[FIRST:.*]] = tfm.reshape %[[ROW]]
// CHECK: %[[BEGIN:.*]] = tfm.broadcast %[[FIRST]]
// CHECK: %[[ROWS:.*]] = tfm.add %[[IOTA]], %[[BEGIN]]
// CHECK: %[[HALF:.*]] = tfm.constant dense<5.000000e-01>
// CHECK: %[[WHOLE:.*]] = tfm.constant dense<1.000000e+00>
// CHECK: %[[SECOND:.*]] = tfm.constant dense<2> : tensor<1x1xi32>
// CHECK: %[[IS:.*]] = tfm.compare ge %[[ROWS]], %[[SECOND]]
// CHECK: %[[RATE:.*]] = tfm.select %[[IS]], %[[WHOLE]], %[[HALF]]
// CHECK: tfm.broadcast %[[RATE]]
// CHECK-LABEL: func.func @update_plain(
// CHECK: dense<2.000000e+00> : tensor<1x1xf32>
// CHECK-NOT: tfm.select
// CHECK-LABEL: func.func @update(
