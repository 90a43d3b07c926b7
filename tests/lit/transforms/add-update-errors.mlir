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
