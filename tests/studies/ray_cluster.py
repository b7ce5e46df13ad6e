"""Two Ray nodes of one core each on this machine: prints the address, kills the second on the line "kill"."""

import sys
import warnings


def main() -> None:
    from ray.cluster_utils import Cluster

    size = {"num_cpus": 1, "object_store_memory": 80_000_000}
    cluster = Cluster(initialize_head=True, head_node_args={**size, "include_dashboard": False})
    second = cluster.add_node(**size)
    cluster.wait_for_nodes()
    print(cluster.address, flush=True)
    for line in sys.stdin:
        if line.strip() == "kill":
            cluster.remove_node(second, allow_graceful=False)
            print("killed", flush=True)
    cluster.shutdown()


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
