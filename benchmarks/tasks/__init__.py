"""What several experiments share: the settings of a paper, contenders, who judges their answers, their processes.

`gk23` and `lm_task` are the tasks of papers; `contest` makes the contenders that can be made here, `agreement` says
whether two of them found the same words, `workers`, `forked` and `memory` run them in processes of their own, and
`versions` other versions of arcbeam.
"""
