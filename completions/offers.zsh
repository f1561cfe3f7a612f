# DUMP=FILE zsh -f offers.zsh DIRECTORY WORD...: what the completions of DIRECTORY offer at the end of the command line, one
# per line. FILE keeps the list of all completions of the machine from the first call on.
# zsh completes only in its line editor: run one in a pseudo-terminal, and have compadd write the matches to a file.
zmodload zsh/zpty zsh/zselect
matches=$(mktemp)
zpty shell zsh -f -i
zpty -w shell "fpath=(${(q)1} \$fpath) MATCHES=$matches; autoload -Uz compinit; compinit -u -C -d ${(q)DUMP}"
zpty -w shell 'compadd() {
    [[ ${@[1,(i)(-|--)]} == *-(O|A|D)\ * ]] || {
        local -a hits
        builtin compadd -A hits "$@"
        print -rl -- $hits >>$MATCHES
    }
    builtin compadd "$@"
}'
zpty -w shell 'complete_end() { print -r -- END >>$MATCHES }; comppostfuncs=(complete_end)'
zpty -w shell 'bindkey "^I" complete-word; LISTMAX=10000'
zpty -w -n shell "${(j: :)@[2,-1]}"$'\t'
while ((SECONDS < 60)); do
    [[ -n ${(M)${(f)"$(<$matches)"}:#END} ]] && break
    zpty -r -t shell unused || zselect -t 2
done
zpty -d shell
print -rl -- ${${(f)"$(<$matches)"}:#END}
rm $matches
