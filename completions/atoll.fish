# fish completion for atoll. The program itself knows the candidates: `atoll complete -- WORDS...`.

function __atoll_candidates
    set -l words (commandline -opc) (commandline -ct)
    for line in (atoll complete -- $words[2..-1] 2>/dev/null)
        switch $line
            case :file
                __fish_complete_path (commandline -ct)
            case :dir
                __fish_complete_directories (commandline -ct) ''
            case '*'
                echo $line
        end
    end
end

complete -c atoll -f -a '(__atoll_candidates)'
