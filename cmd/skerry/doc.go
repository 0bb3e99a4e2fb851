// Command skerry is the user's tool.
//
//	skerry demo      trains a model on real data while replicas are being killed
//	skerry run       starts the replicas of a job, and each again when it dies
//	skerry lighthouse  serves quorums; its commands (ca, leave, remove, transfer-leader, recover) look after servers
//	skerry members   shows the lighthouse's servers
//	skerry status    shows what a lighthouse knows; with --watch, in place
//	skerry why       tells the reason for the quorum there is, and for the lack of one
//	skerry history   tells each change of the quorum, with its culprit, cause and cost
//	skerry events    tells what happened, and with --follow what happens
//	skerry jobs      lists jobs; skerry job config and delete change and end one
//	skerry drain     asks a replica to leave; evict puts it out, kill ends its process
//	skerry torchft-proxy    passes a torchft job's calls on to several lighthouse servers
//	skerry torchft-manager  serves the ranks of a torchft replica in place of torchft's own
//	skerry chaos     breaks a job that runs, again and again, and reports how it gets over it
//	skerry bench     measures all-reduce, quorums and recovery
//	skerry completion  prints what makes a shell complete, live replicas and jobs among it
//	skerry version   tells which build this is
//
// Each command's flags are in its --help. Wrong values, and whatever else a
// user can get wrong, are answered with one line. The exit status is 0 where all went well, 2 of a command line that
// cannot be right, 3 where no lighthouse server answers or none leads, 4 where what is named is not there, 130 after
// Ctrl-C, and else 1; that of skerry run is its job's.
//
// Some commands start processes: those are this same binary, re-executed (see
// package train/spawn), and they end with their parent, however it ends. So do those of skerry
// run, which are any program.
package main
