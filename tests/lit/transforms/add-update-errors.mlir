// RUN: tfm-opt %s --tfm-add-update --split-input-file --verify-diagnostics

// expected-error@+1 {{the recipe has an unknown optimizer: lion}}
module attributes {tfm.recipe = "{\"train\": {\"optimizer\": {\"kind\": \"lion\"}}}"} {
}

// -----

// expected-error@+1 {{the recipe's train block has no optimizer}}
module attributes {tfm.recipe = "{\"train\": {}}"} {
}

// -----

// expected-error@+1 {{the recipe is not JSON}}
module attributes {tfm.recipe = "train"} {
}

// -----

// expected-error@+1 {{the recipe's betas are not two numbers}}
module attributes {tfm.recipe = "{\"train\": {\"optimizer\": {\"kind\": \"adam\", \"betas\": [0.9]}}}"} {
}

// -----

// What the frontend would have filled in is not made up here.
// expected-error@+1 {{the recipe's train.optimizer.eps is missing}}
module attributes {tfm.recipe = "{\"train\": {\"optimizer\": {\"kind\": \"adam\", \"betas\": [0.9, 0.99]}}}"} {
}

// -----

// expected-error@+1 {{the recipe's train.optimizer.weight_decay takes a number of at least 0}}
module attributes {tfm.recipe = "{\"train\": {\"optimizer\": {\"kind\": \"adam\", \"betas\": [0.9, 0.99], \"eps\": 1e-8, \"weight_decay\": -1}}}"} {
}

// -----

// expected-error@+1 {{the recipe's train.optimizer.eps_placement takes `torch` or `keras`}}
module attributes {tfm.recipe = "{\"train\": {\"optimizer\": {\"kind\": \"adam\", \"betas\": [0.9, 0.99], \"eps\": 1e-8, \"weight_decay\": 0, \"decay_min_rank\": 0, \"eps_placement\": \"jax\", \"momentum\": 0.0, \"nesterov\": false}}}"} {
}
