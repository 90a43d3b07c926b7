//===- main.c - a compiled model in a C program ---------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Uses nothing of tfm but the header and the object file of a model:
//
//   main buffers
//     prints the inputs and outputs of every function, and where they lie
//   main WEIGHTS.safetensors THREADS train STEPS TOKENS.i32 TARGETS.i32 OUT.f32
//     steps of training on one batch; prints their losses and writes every
//     parameter
//   main WEIGHTS.safetensors THREADS generate COUNT ID...
//     continues the ids, always with the best token
//   main WEIGHTS.safetensors THREADS call FUNCTION OUT.bin NAME=FILE...
//     runs a function with the bytes of files as its inputs; writes its outputs
//     and, of `train`, the gradients of all parameters
//
//===----------------------------------------------------------------------===//

#include "runtime/tfm_model.h"

#include <float.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static const tfm_model *const model = &tfm_model_descriptor;
/// Built for this machine, the first one where it has tiles and the system lets
/// the program use them, else the last.
static const tfm_variant *variant;
static char *arena;
static int threads;

static void fail(const char *message, const char *what) {
  fprintf(stderr, "%s: %s\n", message, what);
  exit(1);
}

static void *allocate(size_t bytes) {
  size_t rounded = (bytes / 64 + 1) * 64;
  void *memory = aligned_alloc(64, rounded);
  if (!memory)
    fail("out of memory", "");
  return memset(memory, 0, rounded);
}

static char *readAll(const char *path, size_t *size) {
  FILE *file = fopen(path, "rb");
  if (!file)
    fail("cannot open", path);
  fseek(file, 0, SEEK_END);
  *size = (size_t)ftell(file);
  rewind(file);
  char *bytes = malloc(*size + 1);
  if (!bytes || fread(bytes, 1, *size, file) != *size)
    fail("cannot read", path);
  bytes[*size] = 0;
  fclose(file);
  return bytes;
}

static size_t elements(int32_t rank, const int64_t *shape) {
  size_t count = 1;
  for (int32_t i = 0; i < rank; ++i)
    count *= (size_t)shape[i];
  return count;
}

/// A tensor of a safetensors file, which is the length of its JSON header, the
/// header, and bytes.
static const char *tensor(const char *header, const char *bytes,
                          const char *name, const char *suffix, size_t *size) {
  char key[512];
  snprintf(key, sizeof key, "\"%s%s\":", name, suffix);
  const char *entry = strstr(header, key);
  const char *offsets = entry ? strstr(entry, "\"data_offsets\":[") : NULL;
  unsigned long long begin = 0, end = 0;
  if (!offsets ||
      sscanf(offsets, "\"data_offsets\":[%llu,%llu]", &begin, &end) != 2)
    fail("no tensor", key);
  *size = end - begin;
  return bytes + begin;
}

/// Integers of 8 bits, [outputs, terms] in the file, to panels of some outputs.
static void fillPanels(const tfm_parameter *parameter, const char *from,
                       size_t width, char *to) {
  if (parameter->rank != 2)
    fail("no matrix", parameter->name);
  size_t outputs = (size_t)parameter->shape[parameter->output_axis],
         terms = (size_t)parameter->shape[1 - parameter->output_axis],
         groups = (terms + TFM_PANEL_TERMS - 1) / TFM_PANEL_TERMS;
  for (size_t i = 0; i < outputs; ++i)
    for (size_t k = 0; k < terms; ++k)
      to[((i / width * groups + k / TFM_PANEL_TERMS) * width + i % width) *
             TFM_PANEL_TERMS +
         k % TFM_PANEL_TERMS] = (char)(from[i * terms + k] ^ 0x80);
}

static void loadWeights(const char *path) {
  size_t size = 0;
  char *file = readAll(path, &size);
  uint64_t length = 0;
  memcpy(&length, file, 8);
  char *header = malloc(length + 1);
  memcpy(header, file + 8, length);
  header[length] = 0;
  for (int32_t i = 0; i < model->parameter_count; ++i) {
    const tfm_parameter *parameter = &model->parameters[i];
    const tfm_place *place = &variant->places[i];
    const char *bytes = file + 8 + length, *name = parameter->name;
    size_t size = 0;
    const char *value = tensor(header, bytes, name, "", &size);
    if (parameter->dtype == TFM_F32 &&
        size != 4 * elements(parameter->rank, parameter->shape))
      fail("wrong size", name);
    if (place->panel_outputs)
      fillPanels(parameter, value, place->panel_outputs, arena + place->value);
    else
      memcpy(arena + place->value, value, size);
    if (parameter->dtype == TFM_I8 || parameter->dtype == TFM_I4) {
      const char *scales = tensor(header, bytes, name, ".scale", &size);
      memcpy(arena + place->scale, scales, size);
    }
    if (parameter->dtype == TFM_I4) {
      const char *minima = tensor(header, bytes, name, ".minimum", &size);
      memcpy(arena + place->minimum, minima, size);
    }
  }
  free(header);
  free(file);
}

struct worker {
  tfm_thread thread;
  const tfm_function *function;
  pthread_barrier_t *barrier;
  int computes;
};

/// Every thread computes the piece of its own number and waits for the others.
static int64_t claim(tfm_thread *thread) {
  struct worker *worker = thread->pool;
  worker->computes = !worker->computes;
  if (worker->computes)
    return thread->index;
  pthread_barrier_wait(worker->barrier);
  return -1;
}

/// One of them, when all have come so far.
static int64_t finish(tfm_thread *thread) {
  struct worker *worker = thread->pool;
  return pthread_barrier_wait(worker->barrier) == PTHREAD_BARRIER_SERIAL_THREAD;
}

static void *work(void *argument) {
  struct worker *worker = argument;
  worker->function->run(arena, &worker->thread);
  volatile float smallest = FLT_MIN;
  if (smallest / 2 == 0)
    fail("denormal numbers are no longer computed with after",
         worker->function->name);
  return NULL;
}

static const tfm_function *findOrNull(const char *name) {
  for (int32_t i = 0; i < variant->function_count; ++i)
    if (strcmp(variant->functions[i].name, name) == 0)
      return &variant->functions[i];
  return NULL;
}

static const tfm_function *find(const char *name) {
  const tfm_function *found = findOrNull(name);
  if (!found)
    fail("the model has no function", name);
  return found;
}

static void *at(const tfm_buffer *buffers, int32_t count, const char *name) {
  for (int32_t i = 0; i < count; ++i)
    if (strcmp(buffers[i].name, name) == 0)
      return arena + buffers[i].offset;
  fail("the function has no buffer", name);
  return NULL;
}

static void *input(const tfm_function *function, const char *name) {
  return at(function->inputs, function->input_count, name);
}
static void *output(const tfm_function *function, const char *name) {
  return at(function->outputs, function->output_count, name);
}

static void run(const tfm_function *function) {
  pthread_barrier_t barrier;
  pthread_barrier_init(&barrier, NULL, (unsigned)threads);
  pthread_t handles[64];
  struct worker workers[64];
  for (int i = 0; i < threads; ++i) {
    // Whatever was there before.
    void *scratch = allocate(variant->scratch_bytes);
    memset(scratch, 0xff, variant->scratch_bytes);
    tfm_thread thread = {
        .index = i,
        .count = threads,
        .claim = claim,
        .finish = finish,
        .scratch = scratch,
        .pool = &workers[i],
    };
    struct worker worker = {thread, function, &barrier, 0};
    workers[i] = worker;
    pthread_create(&handles[i], NULL, work, &workers[i]);
  }
  for (int i = 0; i < threads; ++i) {
    pthread_join(handles[i], NULL);
    free(workers[i].thread.scratch);
  }
  pthread_barrier_destroy(&barrier);
}

static void printBuffers(void) {
  static const char *const types[] = {"f32", "i32", "u8"};
  static const int widths[] = {4, 4, 1};
  for (int32_t i = 0; i < variant->function_count; ++i) {
    const tfm_function *function = &variant->functions[i];
    for (int32_t j = 0; j < function->input_count + function->output_count;
         ++j) {
      int isInput = j < function->input_count;
      const tfm_buffer *buffer =
          isInput ? &function->inputs[j]
                  : &function->outputs[j - function->input_count];
      printf("%s %s %s %s %llu %llu\n", function->name, isInput ? "in" : "out",
             buffer->name, types[buffer->dtype],
             (unsigned long long)buffer->offset,
             (unsigned long long)buffer->offset +
                 widths[buffer->dtype] * elements(buffer->rank, buffer->shape));
    }
  }
}

/// Adam's numbers are those of tests/e2e/models/tiny.tfm.
static void train(int steps, char **paths) {
  const tfm_function *step = find("train"), *update = find("update");
  size_t size = 0, targetSize = 0;
  char *tokens = readAll(paths[0], &size),
       *targets = readAll(paths[1], &targetSize);
  for (int t = 1; t <= steps; ++t) {
    // All of them before every call: the last one has left other bytes.
    memcpy(input(step, "tokens"), tokens, size);
    memcpy(input(step, "targets"), targets, targetSize);
    *(float *)input(step, "count") = (float)(targetSize / 4);
    uint32_t rng[4] = {1337, 0, (uint32_t)(t - 1), 0};
    memcpy(input(step, "rng"), rng, sizeof rng);
    run(step);
    printf("%.9g\n", (double)*(float *)output(step, "loss"));
    float hyper[4] = {1e-3f, (float)(1 - pow(0.9, t)),
                      (float)(1 - pow(0.999, t)), 1.0f};
    memcpy(input(update, "hyper"), hyper, sizeof hyper);
    run(update);
  }
  FILE *out = fopen(paths[2], "wb");
  if (!out)
    fail("cannot write", paths[2]);
  for (int32_t i = 0; i < model->parameter_count; ++i) {
    const tfm_parameter *parameter = &model->parameters[i];
    fwrite(arena + variant->places[i].value, 4,
           elements(parameter->rank, parameter->shape), out);
  }
  fclose(out);
  free(tokens);
  free(targets);
}

static void generate(int count, char **ids, int length) {
  const tfm_function *forward = find("forward");
  const int64_t *shape = forward->outputs[0].shape;
  int64_t context = shape[1], vocabulary = shape[2];
  int32_t sequence[4096];
  for (int i = 0; i < length; ++i)
    sequence[i] = atoi(ids[i]);
  for (int n = 0; n < count && length < context; ++n) {
    int32_t *tokens = input(forward, "tokens");
    memset(tokens, 0, 4 * elements(2, forward->inputs[0].shape));
    memcpy(tokens, sequence, 4 * (size_t)length);
    run(forward);
    const float *logits =
        (const float *)output(forward, "logits") + (length - 1) * vocabulary;
    int32_t best = 0;
    for (int32_t i = 1; i < vocabulary; ++i)
      if (logits[i] > logits[best])
        best = i;
    sequence[length++] = best;
    printf("%d\n", (int)best);
  }
}

static size_t bytes(const tfm_buffer *buffer) {
  return elements(buffer->rank, buffer->shape) *
         (buffer->dtype == TFM_U8 ? 1 : 4);
}

static void call(const char *name, const char *path, char **inputs, int count) {
  const tfm_function *function = find(name);
  if (count != function->input_count)
    fail("there are other inputs to be filled", name);
  for (int i = 0; i < count; ++i) {
    char *file = strchr(inputs[i], '=');
    if (!file)
      fail("no NAME=FILE", inputs[i]);
    *file++ = 0;
    size_t size = 0;
    char *values = readAll(file, &size);
    for (int32_t j = 0; j < function->input_count; ++j)
      if (strcmp(function->inputs[j].name, inputs[i]) == 0 &&
          bytes(&function->inputs[j]) != size)
        fail("other sizes than", inputs[i]);
    memcpy(input(function, inputs[i]), values, size);
    free(values);
  }
  run(function);
  FILE *out = fopen(path, "wb");
  if (!out)
    fail("cannot write", path);
  for (int32_t i = 0; i < function->output_count; ++i)
    fwrite(arena + function->outputs[i].offset, 1, bytes(&function->outputs[i]),
           out);
  for (int32_t i = 0; i < model->parameter_count; ++i)
    if (strcmp(name, "train") == 0)
      fwrite(arena + variant->places[i].gradient, 4,
             elements(model->parameters[i].rank, model->parameters[i].shape),
             out);
  fclose(out);
}

/// Asks the system for tiles (AMX); processors without them have none to give.
static int mayUseTiles(void) {
#ifdef __x86_64__
  enum { requestPermission = 0x1023, tileData = 18 }; // asm/prctl.h
  return syscall(SYS_arch_prctl, requestPermission, tileData) == 0;
#else
  return 0;
#endif
}

int main(int argc, char **argv) {
  if (model->abi != TFM_ABI_VERSION)
    fail("compiled for another interface", model->name);
  // A build for one CPU has code with its tiles, if any, and without.
  variant = &model->variants[mayUseTiles() ? 0 : model->variant_count - 1];
  if (argc == 2 && strcmp(argv[1], "buffers") == 0) {
    printBuffers();
    return 0;
  }
  if (argc < 5)
    fail("usage", "main buffers, or main WEIGHTS THREADS train|generate ...");
  threads = atoi(argv[2]);
  if (threads < 1 || threads > 64)
    fail("threads", argv[2]);
  arena = allocate(variant->arena_bytes);
  for (int32_t i = 0; i < variant->constant_count; ++i)
    memcpy(arena + variant->constants[i].offset, variant->constants[i].data,
           variant->constants[i].size);
  loadWeights(argv[1]);
  // A model that computes in bf16 reads copies of its weights.
  const tfm_function *refresh = findOrNull("refresh");
  if (refresh)
    run(refresh);
  if (strcmp(argv[3], "train") == 0 && argc == 8)
    train(atoi(argv[4]), argv + 5);
  else if (strcmp(argv[3], "generate") == 0)
    generate(atoi(argv[4]), argv + 5, argc - 5);
  else if (strcmp(argv[3], "call") == 0 && argc > 6)
    call(argv[4], argv[5], argv + 6, argc - 6);
  else
    fail("unknown", argv[3]);
  free(arena);
  return 0;
}
