# nomad job run deploy/nomad/skerry.nomad.hcl
#
# Three lighthouse servers and four replicas in the hosts' own network. The hosts server1 to
# server3 carry meta.skerry_server = "1" to "3", one each, and a host volume "skerry" each. --open:
# the network is the guard here; docs/OPERATIONS.md has certificates and tokens.
job "skerry" {
  datacenters = ["dc1"]

  group "lighthouse" {
    count = 3

    constraint {
      attribute = "${meta.skerry_server}"
      operator  = "is_set"
    }

    constraint {
      distinct_hosts = true
    }

    network {
      mode = "host"
      port "rpc" { static = 29510 }
      port "raft" { static = 29511 }
      port "gossip" { static = 29512 }
    }

    volume "data" {
      type   = "host"
      source = "skerry"
    }

    service {
      name     = "skerry-lighthouse"
      port     = "rpc"
      provider = "nomad"

      check {
        type     = "http"
        path     = "/healthz"
        interval = "5s"
        timeout  = "2s"
      }
    }

    task "lighthouse" {
      driver       = "docker"
      kill_signal  = "SIGTERM"
      kill_timeout = "20s"

      config {
        image        = "skerry:latest"
        network_mode = "host"
        args = [
          "--bind=:29510", "--advertise=server${meta.skerry_server}:29510", "--data-dir=/data/lighthouse",
          "--bootstrap-expect=3", "--join=server1:29510,server2:29510,server3:29510", "--open", "--log-json",
        ]
      }

      volume_mount {
        volume      = "data"
        destination = "/data"
      }
    }
  }

  group "replica" {
    count = 4

    # A replica that dies is started again alone, without end.
    restart {
      attempts = 100
      interval = "1h"
      delay    = "1s"
      mode     = "delay"
    }

    task "trainer" {
      driver      = "docker"
      kill_signal = "SIGTERM"
      # A drain takes a step at most (--step-timeout, 1m), and the write of a checkpoint. The
      # client's max_kill_timeout must allow it: its default is 30s.
      kill_timeout = "120s"

      config {
        image        = "skerry-trainer:latest"
        network_mode = "host"
        # A service's task that ends is started again: the linger is for ever.
        args = [
          "--index=${NOMAD_ALLOC_INDEX}", "--replicas=4", "--steps=100000", "--linger=8760h",
        ]
      }

      env {
        SKERRY_LIGHTHOUSE = "server1:29510,server2:29510,server3:29510"
        SKERRY_JOB        = "digits"
        SKERRY_OPEN       = "1"
      }
    }
  }
}
