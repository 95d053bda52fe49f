module fogctl/tests/kube/tiny

go 1.22
