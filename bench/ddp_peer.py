#!/usr/bin/env python3
"""One process of a training by PyTorch's DistributedDataParallel over gloo.

Started by compare_processes.py, once for each rank, inside of the virtual
environment that has PyTorch; RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT say
who else there is. Reads one JSON object a line from standard input, as
pytorch_peer.py does; {"do": "open"} and {"do": "time"} are what it knows. Each
process computes a micro-batch of the update: the recipe's batch.
"""

import json
import sys

import torch.distributed
from torch.nn.parallel import DistributedDataParallel

import pytorch_peer


class SharedPeer(pytorch_peer.Peer):
    """A peer whose gradients are the mean over all processes."""

    def __init__(self, request):
        super().__init__(request)
        # Others than the first one see other rows.
        rank, count = torch.distributed.get_rank(), torch.distributed.get_world_size()
        self.tokens, self.targets = self.tokens[rank::count], self.targets[rank::count]
        self.loss = DistributedDataParallel(self.model)


def main():
    answers = sys.stdout
    sys.stdout = sys.stderr  # what libraries print is no answer
    torch.distributed.init_process_group("gloo")
    peer = None
    for line in sys.stdin:
        request = json.loads(line)
        if request["do"] == "open":
            peer = SharedPeer(request)
            answer = {"torch": torch.__version__}
        else:
            answer = peer.time(request["steps"])
        print(json.dumps(answer), file=answers, flush=True)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
