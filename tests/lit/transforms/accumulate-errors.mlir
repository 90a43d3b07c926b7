// RUN: tfm-opt %s --tfm-accumulate-gradients --split-input-file --verify-diagnostics

// Whether gradients are added up is not guessed.
// expected-error@+1 {{the recipe is not JSON}}
module attributes {tfm.recipe = "train"} {
}

// -----

// expected-error@+1 {{the recipe's train.accumulate is missing}}
module attributes {tfm.recipe = "{\"train\": {\"batch\": 2}}"} {
}

// -----

// expected-error@+1 {{the recipe's train.accumulate takes an integer of at least 1}}
module attributes {tfm.recipe = "{\"train\": {\"accumulate\": 0}}"} {
}
