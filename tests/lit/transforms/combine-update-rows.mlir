// RUN: tfm-opt %s --tfm-add-update --tfm-combine-update | FileCheck %s --implicit-check-not=@squares
// RUN: tfm-opt %s --tfm-add-update --tfm-combine-update=devices=true | FileCheck %s --check-prefixes=CHECK,DEVICES
// RUN: sed 's/accumulate\\": 2/accumulate\\": 1/' %s | tfm-opt --tfm-add-update --tfm-combine-update | FileCheck %s --check-prefix=ALONE
// RUN: sed 's/accumulate/sum\\": \\"tree\\", \\"accumulate/' %s | tfm-opt --tfm-add-update --tfm-combine-update=devices=true | FileCheck %s --check-prefix=ALONE

// 40 rows of matrices are walked by two at a time, and one of a bias alone: a sixteenth of a region at most.
module attributes {tfm.recipe = "{\"train\": {\"accumulate\": 2, \"optimizer\": {\"kind\": \"adamw\", \"betas\": [0.9, 0.95], \"eps\": 1e-8, \"weight_decay\": 0.5, \"decay_min_rank\": 2, \"eps_placement\": \"torch\", \"momentum\": 0.0, \"nesterov\": false}}}"} {
  tfm.param @w : tensor<40x1024xf32> {init = {kind = "zeros"}}
  tfm.param @b : tensor<1024xf32> {init = {kind = "zeros"}}
}
// CHECK-DAG: func.func @update_decayed(%{{.*}}: tensor<1xi32> {tfm.name = "row", tfm.row}, %{{.*}}: tensor<4xf32> {tfm.name = "hyper"}, %{{.*}}: tensor<f32> {tfm.name = "scale"}, %{{.*}}: tensor<2x1024xf32> {tfm.region = "parameters.decayed"}, %{{.*}}: tensor<2x1024xf32> {tfm.region = "gradients.decayed"}, %{{.*}}: tensor<2x1024xf32> {tfm.region = "state0.decayed"}, %{{.*}}: tensor<2x1024xf32> {tfm.region = "state1.decayed"}) -> (tensor<2x1024xf32> {tfm.region = "parameters.decayed"}, tensor<2x1024xf32> {tfm.region = "state0.decayed"}, tensor<2x1024xf32> {tfm.region = "state1.decayed"})
// CHECK-DAG: func.func @update_plain(%{{.*}}: tensor<1x1024xf32> {tfm.region = "parameters.plain"}
// CHECK-DAG: func.func @update(
// DEVICES-DAG: func.func @squares(%{{.*}}: tensor<40x1024xf32> {tfm.region = "gradients.decayed"}, %{{.*}}: tensor<1x1024xf32> {tfm.region = "gradients.plain"}) -> (tensor<f32> {tfm.name = "squares"})
// ALONE-NOT: @update_decayed
// ALONE-NOT: @update_plain
// ALONE-NOT: @squares
